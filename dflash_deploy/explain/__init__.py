"""What is stale, wrong, missing or needless in somebody's published DFlash command. Pure."""
