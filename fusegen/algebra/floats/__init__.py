"""Is a merge that is equal over the reals right in floats, for every tree and every order?"""
