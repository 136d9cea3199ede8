"""One client's connection, without its sockets: bytes in, decisions out."""
