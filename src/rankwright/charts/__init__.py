"""Charts of trainings, evaluations and models: one function per picture, for notebooks and for reports.

The functions named ``plot_...`` are public. They return Altair charts, which can be shown, changed, combined with other
charts and saved by Altair's own methods. Reports call the functions named ``..._chart`` with the style of a page.
"""
