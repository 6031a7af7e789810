// Runs before the first paint, so that a remembered theme does not flash.
(function () {
  try {
    var theme = localStorage.getItem('lineage.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden: the system's theme it is.
  }
})();
