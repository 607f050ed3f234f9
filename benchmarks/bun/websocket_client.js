// The WebSocket client of the C++ pages with Bun's own WebSocket: messages on one connection, each
// sent when the reply to the one before it has come and was compared. Prints the line of a load, in
// which the client is what is measured.
//
//     bun websocket_client.js --port PORT --size SIZE [--text 1] --requests COUNT --warmup SECONDS

const options = { text: "0", warmup: "0.25", connections: "1" };
for (let i = 2; i < process.argv.length; i += 2) {
  options[process.argv[i].replace("--", "")] = process.argv[i + 1];
}
const size = Number(options.size);
const count = Number(options.requests);
const text = options.text === "1";

function fail(reason) {
  console.error(`websocket_client.js: ${reason}`);
  process.exit(1);
}

const payload = Buffer.alloc(size, "x");
const latencies = new Float64Array(count); // microseconds
const warm = Bun.nanoseconds() + Number(options.warmup) * 1e9;
let counter = 0;
let completed = 0;
let sent = null;
let started = 0;
let begun = 0;
let cpu = null;

const socket = new WebSocket(`ws://127.0.0.1:${options.port}/`);
socket.binaryType = "nodebuffer";

function send() {
  counter += 1;
  if (text) {
    payload.write(String(counter));
    sent = payload.toString("latin1");
  } else {
    payload.writeUInt32LE(counter);
    sent = payload;
  }
  started = Bun.nanoseconds();
  socket.send(sent);
}

function finish(now) {
  const used = process.cpuUsage(cpu);
  const sorted = latencies.sort();
  const quantile = (share) => sorted[Math.min(count - 1, Math.floor(share * count))];
  console.log(
    JSON.stringify({
      requests: completed,
      replies: counter,
      seconds: (now - begun) / 1e9,
      server_cpu_seconds: 0,
      client_cpu_seconds: (used.user + used.system) / 1e6,
      latency_us: {
        p50: quantile(0.5),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: sorted[count - 1],
      },
    }),
  );
  process.exit(0);
}

socket.onopen = send;
socket.onerror = () => fail("the connection has failed");
socket.onclose = () => fail("the connection was closed");
socket.onmessage = ({ data }) => {
  if (text ? data !== sent : !payload.equals(data)) {
    fail("the reply differs from the one that is due");
  }
  const now = Bun.nanoseconds();
  if (cpu === null) {
    if (now >= warm) {
      cpu = process.cpuUsage();
      begun = Bun.nanoseconds();
    }
  } else {
    latencies[completed] = (now - started) / 1e3;
    completed += 1;
    if (completed === count) {
      finish(now);
      return;
    }
  }
  send();
};
