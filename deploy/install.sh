#!/bin/sh
# Installs the `pteron` command from a release: fetches the archive for this system, compares its SHA-256, and copies the program, its
# manual pages and its shell completions below a folder.
#
#   sh install.sh                       into ~/.local
#   sh install.sh --prefix /usr/local   for all users
set -eu

# `cargo xtask test --only rules` compares both with Cargo.toml.
version=0.1.0
repository=https://example.com/pteron

usage() {
  cat <<END
Installs pteron $version: the program in PREFIX/bin, manual pages and completions in PREFIX/share.

  --prefix DIR     the folder to install into [default: ~/.local]
  --base-url URL   where the archives and SHA256SUMS are
                   [default: $repository/releases/download/v$version]
  --help           this text
END
}

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# The target whose archive runs here.
target() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) echo x86_64-unknown-linux-gnu ;;
    Linux-aarch64 | Linux-arm64) echo aarch64-unknown-linux-gnu ;;
    Darwin-arm64) echo aarch64-apple-darwin ;;
    Darwin-x86_64) echo x86_64-apple-darwin ;;
    *) die "there is no archive for $(uname -s) on $(uname -m); build pteron with: cargo install pteron-cli" ;;
  esac
}

# The programs for Linux need glibc 2.28, which distributions have since 2019.
check_libc() {
  [ "$(uname -s)" = Linux ] || return 0
  libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) ||
    die "the archives need glibc 2.28 or later, and this system has another C library; build pteron with: cargo install pteron-cli"
  minor=${libc#glibc 2.}
  minor=${minor%%.*}
  [ "$minor" -ge 28 ] || die "the archives need glibc 2.28 or later, and this system has ${libc#glibc }"
}

# `fetch URL FILE`
fetch() {
  case "$1" in
    https://*) only='=https' ;;
    # Only where --base-url says so.
    *) only='=https,http,file' ;;
  esac
  if have curl; then
    curl --proto "$only" --tlsv1.2 --fail --silent --show-error --location --retry 3 --output "$2" "$1"
  elif have wget; then
    wget --quiet --output-document "$2" "$1"
  else
    die "curl or wget is needed"
  fi || die "$1 could not be fetched"
}

sha256() {
  if have sha256sum; then
    sha256sum "$1"
  elif have shasum; then
    shasum -a 256 "$1"
  else
    die "sha256sum or shasum is needed to check the download"
  fi | cut -d ' ' -f 1
}

# `put FILE MODE DIR [NAME]` replaces a file at once: a program that runs keeps its old file.
put() {
  name=${4:-${1##*/}}
  mkdir -p "$3"
  cp "$1" "$3/.$name.$$"
  chmod "$2" "$3/.$name.$$"
  mv -f "$3/.$name.$$" "$3/$name"
}

main() {
  prefix=${HOME:-}/.local
  base=$repository/releases/download/v$version
  while [ $# -gt 0 ]; do
    case "$1" in
      --prefix | --base-url)
        [ $# -ge 2 ] || die "$1 needs a value"
        if [ "$1" = --prefix ]; then prefix=$2; else base=${2%/}; fi
        shift 2
        ;;
      --help)
        usage
        exit 0
        ;;
      *) die "unknown option $1; --help lists the options" ;;
    esac
  done
  [ "$prefix" != /.local ] || die "HOME is not set; name a folder with --prefix"

  target=$(target)
  check_libc
  name=pteron-$target
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  trap 'exit 130' INT TERM

  say "fetching $base/$name.tgz"
  fetch "$base/SHA256SUMS" "$folder/SHA256SUMS"
  fetch "$base/$name.tgz" "$folder/$name.tgz"
  expected=$(awk -v name="$name.tgz" '$2 == name || $2 == "*" name { print $1 }' "$folder/SHA256SUMS")
  [ -n "$expected" ] || die "SHA256SUMS does not list $name.tgz"
  found=$(sha256 "$folder/$name.tgz")
  [ "$found" = "$expected" ] || die "$name.tgz is damaged: its SHA-256 is $found, expected $expected; nothing was installed"

  tar -xzf "$folder/$name.tgz" -C "$folder"
  from=$folder/$name
  # One that does not start must not replace one that does.
  "$from/pteron" --version >/dev/null || die "the program does not start on this system; nothing was installed"
  put "$from/pteron" 755 "$prefix/bin"
  for page in "$from"/man/*.1; do
    put "$page" 644 "$prefix/share/man/man1"
  done
  put "$from/completions/pteron.bash" 644 "$prefix/share/bash-completion/completions" pteron
  put "$from/completions/pteron.fish" 644 "$prefix/share/fish/vendor_completions.d"
  put "$from/completions/_pteron" 644 "$prefix/share/zsh/site-functions"

  say "installed $("$prefix/bin/pteron" --version) as $prefix/bin/pteron"
  case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) say "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
}

# Called on the last line, so that a script that arrived in part does nothing.
main "$@"
