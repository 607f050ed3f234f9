// The dialog that asks for the token, which the server's terminal shows.

const dialog = document.getElementById("unlock");
const token = document.getElementById("token");
const answer = document.getElementById("unlock-answer");

export function openUnlock() {
  token.value = "";
  answer.textContent = "";
  dialog.showModal();
  token.focus();
}

export function prepareUnlock(connection) {
  // Cancel is not a submit button: Enter activates the first submit button of a form.
  document.getElementById("unlock-cancel").onclick = () => dialog.close();
  dialog.onclose = () => {
    token.value = "";
  };
  dialog.querySelector("form").onsubmit = async (event) => {
    event.preventDefault();
    const result = await connection.unlock(token.value.trim());
    if (!dialog.open) return;
    if (result.ok) {
      dialog.close();
    } else {
      answer.textContent = result.text;
      token.select();
      token.focus();
    }
  };
}
