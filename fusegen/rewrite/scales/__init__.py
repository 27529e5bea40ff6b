"""Positive numbers stand outside of greatest elements, and of distances from these.

  max c·x = c · max x            c·x − max c·x = c · (x − max x)            for c > 0

So logits at a temperature are compared as they are, and an exponential about their greatest takes
one product more than of the logits themselves, whether the text divides them or what lies between
them. Roundings are monotone: the greatest is the text's, bit for bit; and of a distance one
product is rounded where the text rounds two elements. A greatest multiple that elements meet
otherwise, as where those equal to it are chosen, is left alone.
"""
