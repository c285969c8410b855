(function () {
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var node = target; node; node = node.parentElement) { if (node.tagName === "DETAILS") { node.open = true; } }
    if (target) { target.scrollIntoView(); }
  }
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", function () { document.querySelectorAll("details").forEach(function (d) { d.open = true; }); });
  reveal();
})();
