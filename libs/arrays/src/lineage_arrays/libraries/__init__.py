"""Lineage through libraries that import NumPy and SciPy themselves.

>>> from lineage_arrays.libraries import tracing
>>> recording = Recording()
>>> image = recording.source("image.npy", np.zeros((9, 9)))
>>> with tracing("skimage.filters"):
...     smooth = skimage.filters.gaussian(image, sigma=0.5)
>>> recording.back(smooth, np.s_[4, 4]).cells["image.npy"]

The modules of a library are ordinary code: calls of ``np.asarray`` and of SciPy end lineage there as anywhere. `tracing` gives them
a NumPy that keeps traced arrays, SciPy's functions for these, and their own compiled functions as black boxes.
"""

from lineage_arrays.libraries.black_boxes import black_box
from lineage_arrays.libraries.replacing import tracing

__all__ = ["black_box", "tracing"]
