// The page of a trained model that was sent: unpack it, and let it write.

const data = JSON.parse(place("model").textContent);
const integers = new Int8Array(bytesOf("integers").buffer);
const floats = new Float32Array(bytesOf("floats").buffer);
const kernels = new Kernels(bytesOf("kernels"));
const parts = unpack(data.layout, integers, floats, kernels);
const model = new LlamaLM(data.config, parts, kernels);
const tokenizer = new Tokenizer(data.tokenizer);

const size = data.count.toLocaleString("en", { notation: "compact", compactDisplay: "long" });
place("about").textContent =
  `A language model with ${size} weights runs inside this page. It needs no network, ` +
  "and nothing that you type leaves it.";
story = new Story(new Set());
invite();
turn();
begin();
