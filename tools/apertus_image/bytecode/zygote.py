"""Compiles Python files, each in a process of its own that starts from the same memory.

Marshal marks an object that has more than one owner, so bytecode depends on what else is
alive in the compiling process (python/cpython#129724, case 38). Here a parent that imports
next to nothing forks once for each file: every file meets the same memory, whatever the
order or the number of workers.

Run as a script, without site (-S -B -P), by compile.py. Input: fields that end in a zero
byte, three a job: source, output, image path. Output: one line a job, empty when the
bytecode is written, else why there is none; `!` begins the line of a fault that is not its own.
"""

import gc
import marshal
import posix
import sys
from _frozen_importlib_external import MAGIC_NUMBER
from _imp import source_hash

# PEP 552: hash-based, and not checked: the layer's times are all equal, so they can't
# tell an old file from a new one, and a check would read every source (trap 14).
UNCHECKED_HASH = (1).to_bytes(4, "little")
# The salt of source hashes, importlib.util.source_hash's, which would bring imports along.
RAW_MAGIC_NUMBER = int.from_bytes(MAGIC_NUMBER, "little")
WRITTEN, SKIPPED = 0, 3


def compile_file(source, output, path):
    """Compile one file; give None, or why it has no bytecode."""
    with open(source, "rb") as file:
        text = file.read()
    try:
        code = compile(text, path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    data = MAGIC_NUMBER + UNCHECKED_HASH + source_hash(RAW_MAGIC_NUMBER, text)
    with open(output, "wb") as file:
        file.write(data + marshal.dumps(code))
    return None


def one_line(text):
    """A line of output; as short as a pipe takes at once."""
    line = " ".join(text.encode("ascii", "backslashreplace").decode().split())
    return line[:1000].encode() + b"\n"


def main():
    # A collection comes when enough was allocated, which is another moment in each child;
    # it could free what marshal would count.
    gc.disable()
    fields = sys.stdin.buffer.read().split(b"\0")
    for number in range(0, len(fields) - 1, 3):
        child = posix.fork()
        if child == 0:
            source, output, path = fields[number:number + 3]
            try:
                skipped = compile_file(source, output, path.decode("utf-8", "surrogateescape"))
            except OSError as error:  # a full disk
                skipped = f"!{error}"
            if skipped is not None:
                posix.write(1, one_line(skipped))
            posix._exit(WRITTEN if skipped is None else SKIPPED)
        status = posix.waitpid(child, 0)[1]
        if status == 0:
            posix.write(1, b"\n")
        elif status != SKIPPED << 8:
            posix.write(1, one_line(f"!the compiler died, status {status}"))


if __name__ == "__main__":
    main()
