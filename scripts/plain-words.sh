#!/bin/sh
# Flags phrases that a reader stumbles over, in prose (*.md) and in comments of the source (*.rs, *.py).
# scripts/plain-words.txt has the phrases, scripts/plain-words.allow the paths that are left out.
# With arguments it looks at these files only, also at those that are left out otherwise.
set -eu

cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
    printf '%s\n' "$@"
else
    # Files that git does not know yet are looked at too.
    git ls-files --cached --others --exclude-standard -- '*.md' '*.rs' '*.py' | sort -u
fi | LC_ALL=C awk -v named=$# '
    function trimmed(text) { sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text); return text }
    function is_allowed(path,    i) {
        for (i = 1; i <= allowed; i++)
            if (index(path, prefix[i]) == 1 && substr(path, length(path) - length(ending[i]) + 1) == ending[i]) return 1
        return 0
    }
    function look(path, number, line,    text, i) {
        text = " " tolower(line) " "
        if (text !~ any) return
        for (i = 1; i <= words; i++) if (text ~ pattern[i]) {
            printf "%s:%d: %s\n    instead: %s\n", path, number, trimmed(line), hint[i]
            found++
        }
    }
    BEGIN {
        while ((getline line < "scripts/plain-words.txt") > 0) {
            if (line ~ /^#/ || line !~ / = /) continue
            at = index(line, " = ")
            pattern[++words] = "[^a-z-](" substr(line, 1, at - 1) ")[^a-z-]"
            hint[words] = substr(line, at + 3)
            any = any (any == "" ? "" : "|") pattern[words]
        }
        while (!named && (getline line < "scripts/plain-words.allow") > 0)
            if (line !~ /^#/ && split(line, part, " ") > 0) {
                prefix[++allowed] = part[1]
                ending[allowed] = part[2]
            }
    }
    {
        path = $0
        if (is_allowed(path)) next
        number = 0; fence = 0; quoted = 0
        while ((getline line < path) > 0) {
            number++
            if (path ~ /\.rs$/) {
                # A comment begins at the line or after a space, which spares addresses such as https://.
                if (match(line, /(^|[ \t])\/\//)) look(path, number, substr(line, RSTART))
            } else if (path ~ /\.py$/) {
                quotes = gsub(/"""/, "&", line)
                if (quoted || quotes) look(path, number, line)
                else if (match(line, /(^|[ \t])#/)) look(path, number, substr(line, RSTART))
                if (quotes % 2) quoted = !quoted
            } else if (line ~ /^[ \t]*```/) {
                fence = !fence
            } else if (!fence) {
                look(path, number, line)
            }
        }
        close(path)
    }
    END {
        if (!found) exit 0
        print "plain-words: " found " phrases to rewrite (the list is in scripts/plain-words.txt)"
        exit 1
    }
'
