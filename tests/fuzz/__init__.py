"""Random pipelines against the algebra, judged by an oracle that shares nothing with it.

    terms, generator    pipelines as data, and random ones
    exact, rows         a graph over the reals at 70 digits, and rows to evaluate it on
    oracle              is what was accepted true?
    truth               could what was refused have been merged? From separable (rank, order),
                        polys and forms (a separated form, read from the text), safety (is that
                        form safe?) and rounding (how much the text itself loses)
    campaign, page      many pipelines, their figures, and a page of them
"""
