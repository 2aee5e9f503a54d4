#!/usr/bin/env python3
"""Follows tutorials word for word: tutorials.py ROOT FOLDER PAGE...

Runs the commands of each page in its order, as root in the file system ROOT, in its folder FOLDER, in one shell for each page. Prints a line "ok" or "not ok" for each.

A fence `console` has commands behind "$ ", each with its output; "? N" is its status, 0 without; a line "..." stands for any lines, "[..]"
for a part of a line. Standard error is not compared. Of other fences, lines that begin with "# ", "$ ", "memtint " are commands that must
succeed. A comment above a fence changes this:

    <!-- file: NAME -->          the fence is the text of this file
    <!-- PID: COMMAND -->        COMMAND runs meanwhile, and writes the number that stands for PID to the file "pid"
    <!-- not followed: WHY -->   no command of the fence is run: printed as "# not followed", and counted
"""

import os
import re
import subprocess
import sys
from pathlib import Path

# Every command ends with this line and its status.
MARK = "--end-of-command--"


def fences(page):
    """Language, comment above and lines of each fence."""
    comment, language, lines = "", None, []
    for line in page.read_text().splitlines():
        fence = re.fullmatch(r"\s*```(\w*)", line)
        if language is None and fence:
            language, lines = fence[1], []
        elif language is not None and fence:
            yield language, comment, lines
            comment, language = "", None
        elif language is not None:
            lines.append(line)
        elif line.startswith("<!--"):
            comment = line.removeprefix("<!--").removesuffix("-->").strip()
        elif line.strip():
            comment = ""


def steps(lines):
    """Commands of a fence `console`, with status and expected lines."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], 0, []))
        elif line.startswith("? ") and not found[-1][2]:
            found[-1] = (found[-1][0], int(line[2:]), [])
        else:
            found[-1][2].append(line)
    return found


def commands(lines):
    """Commands of another fence."""
    typed = [re.fullmatch(r"\s*(?:[#$] (.*)|(memtint .*))", line) for line in lines]
    return [match[1] or match[2] for match in typed if match]


def pattern(lines):
    """A regular expression for the lines."""
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(".*".join(re.escape(part) for part in line.split("[..]")).replace(".*", r"[^\n]*") + r"\n")
    return "".join(parts)


class Shell:
    """A shell that keeps directory, variables and background jobs from command to command."""

    def __init__(self, root, folder):
        # Commands do not come from standard input, which programs may read.
        reader, writer = os.pipe()
        self.process = subprocess.Popen(
            ["chroot", root, "bash", f"/dev/fd/{reader}"],
            pass_fds=[reader],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        os.close(reader)
        self.commands = os.fdopen(writer, "w")
        self.run(f"cd {folder}")

    def run(self, command):
        self.commands.write(f"{command}\necho {MARK} $?\n")
        self.commands.flush()
        output = ""
        for line in self.process.stdout:
            end = re.fullmatch(rf"(.*){MARK} (\d+)\n", line)
            if end:
                return output + end[1], int(end[2])
            output += line
        return output, -1

    def end(self):
        self.commands.close()
        self.process.wait()


def follow(page, root, folder):
    """Returns how many commands were not followed."""
    shell, left = Shell(root, folder), 0
    for language, comment, lines in fences(page):
        name, _, text = comment.partition(": ")
        console = language == "console"
        tried = steps(lines) if console else [(command, 0, None) for command in commands(lines)]
        if name == "file":
            Path(f"{root}{folder}/{text}").write_text("\n".join(lines) + "\n")
            print(f"# {page.name}: wrote {text}")
            continue
        if name == "PID":
            shell.run(f"{text} & until [ -s pid ]; do sleep 0.1; done; sleep 2")
        for command, status, expected in tried:
            shown = f"{page.stem}: {command}"
            if name == "not followed":
                left += 1
                print(f"# not followed: {shown} ({text})")
                continue
            output, found = shell.run(re.sub(r"\bPID\b", "$(cat pid)", command) if name == "PID" else command)
            if found != status:
                print(f"not ok - {shown} # status {found}, expected {status}")
            elif expected is not None and not re.fullmatch(pattern(expected).rstrip("\n") + r"\n?", output):
                print(f"not ok - {shown} # found {output!r}, expected {expected!r}")
            else:
                print(f"ok - {shown}")
            sys.stdout.flush()
        if name == "PID":
            shell.run("kill %%; wait; rm -f pid")
    shell.end()
    return left


def main():
    root, folder, *pages = sys.argv[1:]
    left = sum(follow(Path(page), root, folder) for page in pages)
    print(f"{left} commands not followed")


main()
