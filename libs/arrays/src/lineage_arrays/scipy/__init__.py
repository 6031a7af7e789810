"""SciPy's ``ndimage``, ``signal`` and ``linalg`` for traced arrays: import them from here in place of ``scipy``.

>>> from lineage_arrays.scipy import ndimage
>>> recording = Recording()
>>> image = recording.source("image.npy", np.zeros((5, 5)))
>>> smooth = ndimage.convolve1d(image, [0.25, 0.5, 0.25])
>>> recording.back(smooth, np.s_[2, 2]).cells["image.npy"].coordinates().tolist()
[[2, 1], [2, 2], [2, 3]]

Functions take plain arrays as before. What a function does with traced ones is in docs/reference/arrays-scipy.md.
"""
