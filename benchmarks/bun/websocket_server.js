// The server of the WebSocket page with Bun, whose WebSockets are uWebSockets.
//
//     bun websocket_server.js [deflate]

const deflate = process.argv[2] === "deflate";

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request, server) {
    return server.upgrade(request) ? undefined : new Response("not a WebSocket", { status: 400 });
  },
  websocket: {
    perMessageDeflate: deflate,
    maxPayloadLength: 1 << 26,
    idleTimeout: 0,
    message(socket, message) {
      socket.send(message, deflate);
    },
  },
});
console.log(server.port);
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
