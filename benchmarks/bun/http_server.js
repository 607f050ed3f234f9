// The server of the C++ HTTP page with Bun.

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  routes: {
    "/": () =>
      new Response("Hello, world!", { headers: { "Content-Type": "text/plain; charset=utf-8" } }),
  },
});
console.log(server.port);
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
