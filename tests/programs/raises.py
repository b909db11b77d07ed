"""What a call must raise, for programs that run without pytest."""


def raises(kind, words, f, *args, **kwargs):
    """Call a function, which must fail with an error of a kind, with certain words."""
    try:
        f(*args, **kwargs)
    except kind as e:
        assert words in str(e), e
    else:
        raise AssertionError("no error")
