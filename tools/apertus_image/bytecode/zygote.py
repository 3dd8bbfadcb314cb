"""Compiles Python files, each in a process of its own that starts from the same memory.

Marshal writes a back-reference where an object has more than one owner, so bytecode
depends on what the compiling process did before (python/cpython#129724, case 38). Here a
parent that imports little forks once for each file: every file meets the same memory,
whatever the order or the number of workers, for about a millisecond a file.

Run as a script, isolated (-I -S -B). Input, lines of JSON: [source, output, image path].
Output, lines of JSON: null when written, or why the file was skipped.
"""

import json
import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER, source_hash

# PEP 552: hash-based, and not checked: the layer's times are all equal, so they can't
# tell an old file from a new one, and a check would read every source (trap 14).
UNCHECKED_HASH = (1).to_bytes(4, "little")


def compile_file(source, output, path):
    """Compile one file; give None, or why it has no bytecode."""
    with open(source, "rb") as file:
        text = file.read()
    try:
        code = compile(text, path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    with open(output, "wb") as file:
        file.write(MAGIC_NUMBER + UNCHECKED_HASH + source_hash(text) + marshal.dumps(code))
    return None


def main():
    for line in sys.stdin:
        source, output, path = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.write(writer, json.dumps(compile_file(source, output, path)).encode()[:4096])
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        if status or not said:
            said = json.dumps(f"the compiler died, status {status}").encode()
        sys.stdout.write(said.decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
