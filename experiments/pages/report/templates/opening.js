(function () {
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    var own = target && target.querySelector(":scope > details.evidence");
    if (own) { own.open = true; }
    for (var node = target; node; node = node.parentElement) { if (node.tagName === "DETAILS") { node.open = true; } }
    if (target) { target.scrollIntoView(); }
  }
  addEventListener("hashchange", reveal);
  // Printed: the answer, and what is opened; figures and settings are opened for it.
  var opened = [];
  addEventListener("beforeprint", function () {
    opened = [].filter.call(document.querySelectorAll("#loss > details, #settings > details"), function (d) { return !d.open; });
    opened.forEach(function (d) { d.open = true; });
  });
  addEventListener("afterprint", function () { opened.forEach(function (d) { d.open = false; }); });
  reveal();
})();
