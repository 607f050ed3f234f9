// The peer of interoperation_test.cpp on Bun.
//
// usage: peer.js serve      prints its port; echoes, with compression
//        peer.js ask URL    asks an echo server, closes with 4002, and prints "ok"

if (process.argv[2] === "serve") {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request, server) => (server.upgrade(request) ? undefined : new Response("", { status: 400 })),
    websocket: {
      perMessageDeflate: true,
      message: (socket, message) => socket.send(message, true),
    },
  });
  console.log(server.port);
} else {
  const messages = ["", "text", "\u20ac".repeat(50000), "x".repeat(1000000)];
  const socket = new WebSocket(process.argv[3]);
  let next = 0;
  socket.onopen = () => socket.send(messages[0]);
  socket.onmessage = (event) => {
    if (event.data !== messages[next]) {
      throw new Error(`message ${next} differs`);
    }
    next += 1;
    if (next < messages.length) {
      socket.send(messages[next]);
    } else {
      socket.close(4002, "done");
    }
  };
  socket.onclose = (event) => {
    console.log(event.code === 4002 && next === messages.length ? "ok" : `closed with ${event.code}`);
    process.exit(0);
  };
}
