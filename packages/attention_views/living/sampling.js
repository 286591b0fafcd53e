// Turn next-token scores into a distribution and draw from it, as in decoding.py.

const softmax = (scores) => {
  const highest = scores.reduce((most, score) => Math.max(most, score));
  const weights = scores.map((score) => Math.exp(score - highest));
  const sum = weights.reduce((before, weight) => before + weight);
  return weights.map((weight) => weight / sum);
};

// The ids of the k highest scores, the highest first, of equal ones the first. For a small
// k each is inserted among the best so far, a tiny part of what sorting all would take.
const likeliest = (scores, k) => {
  if (k > 128) return [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, k);
  const ids = [];
  let lowest = -Infinity; // of the best so far
  for (let id = 0; id < scores.length; id++) {
    if (ids.length === k && scores[id] <= lowest) continue;
    let place = Math.min(ids.length, k - 1);
    for (; place && scores[id] > scores[ids[place - 1]]; place--) ids[place] = ids[place - 1];
    ids[place] = id;
    lowest = scores[ids.at(-1)];
  }
  return ids;
};

// The tokens that may follow, the likeliest first, and their chances: temperature, then
// top-k, then top-p. Temperature 0 leaves only the likeliest.
const distribution = (logits, { temperature, topK, topP }) => {
  if (temperature === 0) return { ids: likeliest(logits, 1), chances: [1] };
  const ids = likeliest(logits, topK);
  const chances = softmax(Float32Array.from(ids, (id) => logits[id] / temperature));
  let [kept, sum] = [0, 0];
  while (kept < ids.length && sum < topP) sum += chances[kept++];
  return {
    ids: ids.slice(0, kept),
    chances: Array.from(chances.subarray(0, kept), (chance) => chance / sum),
  };
};

// How much a token surprises, in bits: finite, however unlikely it is.
const surprise = (logits, id) => {
  let [highest, sum] = [-Infinity, 0]; // in loops: a story asks it of each token
  for (const score of logits) if (score > highest) highest = score;
  for (const score of logits) sum += Math.exp(score - highest);
  return (highest - logits[id] + Math.log(sum)) / Math.LN2;
};

const draw = ({ ids, chances }, dice) => {
  let i = 0;
  for (let left = dice; i < ids.length - 1 && left >= chances[i]; i++) left -= chances[i];
  return ids[i];
};

// A number from 0 to 1 that depends on the seed and the position alone: two stories
// that are written with the same dice differ only where the model differs.
const dice = (seed, position) => {
  let mixed = Math.imul(seed * 1000 + position + 1, 0x9e3779b1);
  mixed ^= Math.imul(Math.floor(position / 1000), 0x27d4eb2f);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
};
