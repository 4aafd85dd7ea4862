// Training curves.

for (const [place, chart] of data.charts.entries()) {
  lineChart(document.getElementById(`chart-${place}`), { ...chart, whole: true });
}
document.documentElement.dataset.drawn = "yes";
