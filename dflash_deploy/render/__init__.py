"""Plan -> text. Each form is a view of the same value."""
