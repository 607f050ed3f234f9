// The WebSocket to the server: it reconnects by itself, and unpacks points.

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5000;

export class Connection {
  constructor(handlers) {
    this.handlers = handlers;
    this.token = null;
    this.pause = FIRST_PAUSE_MS;
    this.socket = null;
    this.answers = new Map();
    this.lastId = 0;
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/live`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      // The token is not in the URL, because servers and proxies log URLs.
      this.send({ type: "hello", token: this.token });
      this.handlers.opened();
    };
    socket.onmessage = (event) => this.receive(event.data);
    socket.onclose = () => {
      for (const answer of this.answers.values()) {
        answer({ ok: false, text: "the connection was lost; whether the change was made is unknown" });
      }
      this.answers.clear();
      this.handlers.closed();
      if (!opened) this.askForPassword();
      setTimeout(() => this.open(), this.pause);
      this.pause = Math.min(2 * this.pause, LONGEST_PAUSE_MS);
    };
  }

  // Reload the page if the server wants the password: a restarted server accepts no older cookie.
  async askForPassword() {
    const answer = await fetch("dash.js", { cache: "no-store" }).catch(() => null);
    if (answer?.status === 401) location.reload();
  }

  get isOpen() {
    return this.socket !== null && this.socket.readyState === WebSocket.OPEN;
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
  }

  // Resolves to {ok, text}. Only a token that the server accepted is sent again when reconnecting.
  async unlock(token) {
    const answer = await this.ask({ type: "hello", token });
    if (answer.ok) this.token = token;
    return answer;
  }

  // Send a message and wait for its answer; resolves to {ok, text}.
  ask(message) {
    if (!this.isOpen) {
      return Promise.resolve({ ok: false, text: "there is no connection; nothing was sent" });
    }
    const id = ++this.lastId;
    return new Promise((resolve) => {
      this.answers.set(id, resolve);
      this.send({ ...message, id });
    });
  }

  receive(data) {
    if (typeof data !== "string") {
      this.handlers.points(unpack(data));
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "state") {
      this.pause = FIRST_PAUSE_MS;
      this.handlers.state(message);
      this.send({ type: "ack", seq: message.seq });
    } else if (message.type === "hello") {
      this.handlers.hello(message);
    } else if (message.type === "result") {
      const answer = this.answers.get(message.id);
      this.answers.delete(message.id);
      if (answer) answer(message);
    }
  }
}

// The message is a JSON head, then for each curve its times, lowest and highest values. A curve that
// is `same` has the times of the previous curve. In a `flat` curve the lowest values are the highest
// values too.
function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let offset = 4 + size;
  let t = null;
  for (const curve of head.curves) {
    const take = () => {
      offset += 8 * curve.rows;
      return new Float64Array(buffer, offset - 8 * curve.rows, curve.rows);
    };
    if (!curve.same) t = take();
    const low = take();
    curve.columns = [t, low, curve.flat ? low : take()];
  }
  return head;
}
