"use strict";
// Replaces the sections that have changed. A page from the disk may load a script, but no data.
const ackbenchLive = (() => {
  const STALE_S = 10;
  const news = document.getElementById("news");
  const main = document.getElementById("main");
  const pause = document.getElementById("pause");
  const shown = {};
  let state = null;
  let paused = false;

  const say = text => {
    if (news.textContent !== text) news.textContent = text;
  };
  const show = next => {
    if (paused) return;
    state = next;
    for (const [name, html] of Object.entries(next.sections)) {
      if (shown[name] !== undefined && shown[name] !== html) {
        document.getElementById(name).innerHTML = html;
      }
      shown[name] = html;
    }
  };
  const load = () => {
    const script = document.createElement("script");
    script.src = `data.js?${Date.now()}`;
    script.onload = script.onerror = () => script.remove();
    document.head.append(script);
  };
  const tick = () => {
    if (paused) return;
    load();
    const age_s = Math.round((Date.now() - state.at_ms) / 1000);
    const stale = !state.over && age_s > STALE_S;
    news.classList.toggle("stale", stale);
    main.classList.toggle("stale", stale);
    say(stale ? `No data for ${age_s} s: the run or the process that reads it was killed or stopped, `
      + `or the machine is busy. The figures below are ${age_s} s old.` : state.news);
  };
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume updates" : "Pause updates";
    tick();
  });
  setInterval(tick, 1000);
  load(); // the page itself is written less often
  return show;
})();
window.ackbenchLive = ackbenchLive;
