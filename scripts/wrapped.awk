# Prints the prose lines of Markdown files that are longer than 100 characters, and fails if there are any.
# Tables, headings, code blocks, HTML, link targets and URLs are not prose, and a word without a space cannot be wrapped.
# Usage: LC_ALL=C awk -f scripts/wrapped.awk FILE…   (the C locale counts bytes; this script counts characters)
BEGIN { limit = 100 }

FNR == 1 { fence = "" }

# A fence ends with the same characters that it starts with.
/^ *(>|[-*+]|[0-9]+\.)? *(```|~~~)/ {
  mark = $0
  sub(/^[^`~]*/, "", mark)
  mark = substr(mark, 1, 3)
  if (fence == "") fence = mark
  else if (mark == fence) fence = ""
  next
}

fence != "" || /^ *[|#<]/ || /^ *\[[^]]*\]: / { next }

{
  text = $0
  gsub(/\]\([^)]*\)/, "]", text)
  gsub(/https?:\/\/[^ )>]*/, "", text)
  # The bytes of a character after its first
  gsub(/[\200-\277]/, "", text)
  words = text
  sub(/^ *([-*+>]|[0-9]+\.)* */, "", words)
  if (length(text) > limit && words ~ / /) {
    printf "%s:%d: %d columns\n", FILENAME, FNR, length(text)
    found = 1
  }
}

END { exit found }
