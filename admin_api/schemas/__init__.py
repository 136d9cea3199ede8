"""The JSON of bodies and answers that are no view of `coordinator.insight`: a module for each subject."""
