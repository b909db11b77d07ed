"""Parts of the programs that tests run in processes of their own."""

# A call must fail with an error of a kind, with certain words.
RAISES = """
def raises(kind, words, f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except kind as e:
        assert words in str(e), e
    else:
        raise AssertionError("no error")
"""
