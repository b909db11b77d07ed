"""Has comments and a message that test_prose.py finds fault with."""

x = 1  # done anew
# One.
# This sentence has one word more than a sentence may have, as it goes on and on, past its end, to
# a word that is its twenty-sixth.
# noqa: anew
raise ValueError(f"{x} is read anew")
