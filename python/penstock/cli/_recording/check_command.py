"""``penstock record --check``: everything that a run checks before it records, and nothing else."""

from __future__ import annotations

from penstock.alicat import AlicatManager
from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.joining import Joining
from penstock.cli._recording.network_sinks import NetworkSinks
from penstock.cli._recording.output import check_output
from penstock.cli._recording.plan import RunPlan
from penstock.cli._recording.progress import DeviceProgress, Progress

__all__ = ["run_check"]


def run_check(plan: RunPlan, interrupts: Interrupts) -> int:
    """Check the files, the instruments, their limits, setpoints and safe states.

    No file is created, and no instrument is changed.

    Raises:
        CommandError: as a run would; with exit code DEVICE also for an instrument that does not
            answer and is not required.
    """
    check_output(plan)
    from penstock import run

    with interrupts.deferred():
        absent, lines = run(_ask(plan))
    interrupts.raise_if_received()
    for line in lines:
        print(line)
    if absent:
        raise CommandError(
            f"{', '.join(absent)} did not answer; a run would begin without, and ask again",
            ExitCode.DEVICE,
        )
    print(f"nothing is in the way of a run into {plan.out}", flush=True)
    return ExitCode.OK


async def _ask(plan: RunPlan) -> tuple[list[str], list[str]]:
    progress = Progress(
        {device.name: DeviceProgress(device) for device in plan.devices},
        plan.rate_hz,
        plan.duration,
    )

    async def tell(text: str) -> None:
        print(text, flush=True)

    await NetworkSinks(plan, tell).check()
    async with AlicatManager() as manager:
        joining = Joining(manager, progress, tell)
        await joining.open_all(plan.devices)
        lines = []
        for name, facts in ((name, manager.device_facts(name)) for name in manager.names):
            about = ", ".join(
                f"{key} {facts[key]}" for key in ("model", "serial", "firmware") if key in facts
            )
            quantity = progress.devices[name].quantity
            shown = f"; {quantity.name} in {quantity.unit}" if quantity is not None else ""
            lines.append(f"{name}: {about}{shown}")
        busy = {
            label: share for label, share in manager.utilisation(plan.rate_hz).items() if share > 1
        }
        lines += [
            f"warning: the polls on {label} take {share:.1f} times the time that there is; "
            "poll more slowly, or at a higher baud rate"
            for label, share in busy.items()
        ]
        return list(joining.absent), lines
