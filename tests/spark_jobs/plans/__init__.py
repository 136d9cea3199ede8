"""Plans of all jobs as text, committed beside: what a change does to them is seen in its diff."""
