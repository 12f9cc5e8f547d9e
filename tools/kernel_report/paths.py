"""Counts what a thread executes in one round of a kernel's main loop.

A loop of ours holds a case for each dtype, so its instructions are not those of a round: paths from its head back to it are
told apart by the bytes that they load and store."""
import collections

import opcodes

MOST_STATES = 500


class Intricate(Exception):
    """More different paths than can be counted."""


def successors(code, at):
    instruction = code[at]
    if instruction.name in ("EXIT", "RET") and instruction.always:
        return []
    after = [at + 1] if at + 1 < len(code) else []
    if instruction.target < 0:
        return after
    return [instruction.target] if instruction.always else [*after, instruction.target]


def walk(code):
    """(order, back): instructions so that each comes behind what it leads to, but for the edges `back` of loops."""
    state, order, back = {}, [], []
    stack = [(0, iter(successors(code, 0)))]
    state[0] = "open"
    while stack:
        at, rest = stack[-1]
        for following in rest:
            if state.get(following) == "open":
                back.append((at, following))
            elif following not in state:
                state[following] = "open"
                stack.append((following, iter(successors(code, following))))
                break
        else:
            state[at] = "done"
            order.append(at)
            stack.pop()
    return order, back


def loops(code):
    """Each loop as (its head, the set of its instructions)."""
    order, back = walk(code)
    before = collections.defaultdict(list)
    for at in order:
        for following in successors(code, at):
            before[following].append(at)
    bodies = collections.defaultdict(set)
    for end, head in back:
        body, open_ends = {head, end}, [end]
        while open_ends:
            at = open_ends.pop()
            if at == head:
                continue
            for previous in before[at]:
                if previous not in body:
                    body.add(previous)
                    open_ends.append(previous)
        bodies[head] |= body
    return list(bodies.items())


def count_paths(code, head, body):
    """Paths from `head` back to it (head None: from the kernel's start to its end) by (bytes loaded, bytes stored): of each
    kind the instructions by unit of the longest. A loop within counts as one round."""
    order, back = walk(code)
    back = set(back)
    ways = {}  # of an instruction, to the end: {(loads, stores): (count, units)}
    for at in order:  # what it leads to comes first
        if body is not None and at not in body:
            continue
        found = {}
        following = successors(code, at)
        ends = code[at].name in ("EXIT", "RET") if head is None else head in following and (at, head) in back
        if not following or ends:
            found[(0, 0)] = (0, (0,) * len(opcodes.UNITS))
        for one in following:
            if (at, one) in back:
                continue
            for moved, way in ways.get(one, {}).items():
                if moved not in found or found[moved][0] < way[0]:
                    found[moved] = way
        instruction, unit = code[at], opcodes.UNITS.index(code[at].unit)
        ways[at] = {(loads + instruction.loads, stores + instruction.stores):
                    (count + 1, units[:unit] + (units[unit] + 1,) + units[unit + 1:])
                    for (loads, stores), (count, units) in found.items()}
        if len(ways[at]) > MOST_STATES:
            raise Intricate("too many paths")
    start = 0 if head is None else head
    return {moved: dict(zip(opcodes.UNITS, units)) for moved, (_, units) in ways.get(start, {}).items()}


def main_loop(code):
    """The paths of the innermost loop that moves most bytes in a round; those of the whole kernel where no loop moves any."""
    moving = []
    for head, body in loops(code):
        if any(code[at].loads or code[at].stores for at in body):
            moving.append((head, body))
    inner = [(head, body) for head, body in moving if not any(other < body for _, other in moving)]
    best = {}
    for head, body in inner:
        paths = count_paths(code, head, body)
        if paths and (not best or max(map(sum, paths)) > max(map(sum, best))):
            best = paths
    return best or count_paths(code, None, None)
