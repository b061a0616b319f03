"""What can go wrong with data: one class for each way in which the user can react."""


class DataNotFound(LookupError):
    """No place had the data set; the message lists every place tried and what to do."""


class InvalidDropIn(ValueError):
    """A drop-in file cannot be used as it is; it belongs to the user, so it is not touched."""


class Damaged(ValueError):
    """Bytes differ from those promised: truncated, altered, or another data set."""


class FetchFailed(OSError):
    """A source could not be reached or is not installed; what it delivered earlier remains good."""
