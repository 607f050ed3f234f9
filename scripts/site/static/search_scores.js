// A reader who searches wants the page that explains a thing, then the entry of the reference. Sphinx ranks names of the
// reference first; here a title of a page comes before them, and pages of the reference come last.
var Scorer = {
  score: ([docName, , , , score]) => (docName.startsWith("reference/") ? score - 20 : score),
  objNameMatch: 11,
  objPartialMatch: 4,
  objPrio: {0: 10, 1: 2, 2: -5},
  objPrioDefault: 0,
  title: 30,
  partialTitle: 15,
  term: 5,
  partialTerm: 2,
};
