"""One module per lesson: a pure function from what a sweep measured to the finding for the lesson's claim."""
