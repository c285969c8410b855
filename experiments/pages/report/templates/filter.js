(function () {
  var form = document.querySelector("form.filters");
  if (!form) { return; }
  form.hidden = false;
  var rows = [].slice.call(document.querySelectorAll("tr[data-row]"));
  var count = document.getElementById("count");
  function fits(row) {
    return [].every.call(form.elements, function (field) {
      var name = field.dataset.filter, wanted = field.value.trim().toLowerCase();
      if (!name || !wanted) { return true; }
      if (name === "words") {
        var text = row.textContent.toLowerCase();
        return wanted.split(/\s+/).every(function (word) { return text.indexOf(word) >= 0; });
      }
      return (row.dataset[name] || "").toLowerCase().split("|").indexOf(wanted) >= 0;
    });
  }
  function show() {
    var shown = 0, state = new URLSearchParams();
    rows.forEach(function (row) { row.hidden = !fits(row); shown += row.hidden ? 0 : 1; });
    count.textContent = shown + " of " + rows.length + " shown";
    [].forEach.call(form.elements, function (field) {
      if (field.dataset.filter && field.value) { state.set(field.dataset.filter, field.value); }
    });
    history.replaceState(null, "", "#" + state);
  }
  new URLSearchParams(location.hash.slice(1)).forEach(function (value, name) {
    var field = form.querySelector("[data-filter=" + CSS.escape(name) + "]");
    if (field) { field.value = value; }
  });
  form.addEventListener("input", show);
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  show();
})();
