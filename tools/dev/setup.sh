# Sourced by ./dev: installs what is missing, and nothing else. Debian 12, as root or with sudo.

# Packages by purpose. `need PURPOSE ...` makes them present; it costs milliseconds when they are.
packages_of() {
  case $1 in
    build)
      echo g++ cmake ninja-build ccache git python3 libgtest-dev libgmock-dev libxxhash-dev nlohmann-json3-dev
      ;;
    python) echo python3 python3-venv ;;
    format) echo clang-format-14 clang-tidy-14 git python3 ;;
    clang) echo clang libclang-rt-14-dev ;;
    arm64) echo g++-aarch64-linux-gnu qemu-user ;;
    oracle) echo g++ cmake ninja-build ;;
  esac
}

missing_packages() {  # PACKAGE ...
  local installed
  # shellcheck disable=SC2016  # the format string is dpkg-query's
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  local package
  for package in "$@"; do
    grep -qx "installed $package" <<<"$installed" || echo "$package"
  done
}

install_packages() {  # PACKAGE ...
  local apt=(apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2)
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "setup: packages missing: $*, expected root or sudo; ask for: apt-get install $*"
    apt=(sudo DEBIAN_FRONTEND=noninteractive "${apt[@]}")
  fi
  say "setup: installing $*"
  local log
  log=$(mktemp)
  if ! { DEBIAN_FRONTEND=noninteractive "${apt[@]}" update &&
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "$@"; } \
    </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "setup: apt-get could not install $*"
  fi
  rm -f "$log"
}

need() {  # PURPOSE ...
  local purpose wanted=() missing
  for purpose in "$@"; do
    # shellcheck disable=SC2207  # package names have no spaces
    wanted+=($(packages_of "$purpose"))
  done
  command -v dpkg-query >/dev/null || die "setup: dpkg-query: not found, expected Debian 12; install by hand: ${wanted[*]}"
  missing=$(missing_packages "${wanted[@]}")
  # shellcheck disable=SC2086
  [ -z "$missing" ] || install_packages $missing
  for purpose in "$@"; do
    case $purpose in
      python) make_venv ;;
      oracle) make_venv && install_oracle ;;
      arm64) make_arm64_libraries ;;
    esac
  done
}

make_venv() {
  # pip comes last, so a .venv with pip that starts is a whole one; it breaks when the folder moves.
  .venv/bin/python -c 'import pip' 2>/dev/null && [ -x .venv/bin/pip ] && return
  say "setup: making .venv"
  rm -rf .venv
  /usr/bin/python3 -m venv --without-pip .venv
  # As venv would do it, which hides why it failed.
  local log
  log=$(.venv/bin/python -m ensurepip --upgrade --default-pip 2>&1) || { echo "$log" >&2; die "setup: .venv: pip could not be installed"; }
}

install_oracle() {
  local list=tools/dev/oracle.txt stamp=.venv/oracle.installed
  cmp -s "$list" "$stamp" && return
  say "setup: Python packages of $list (llama-cpp-python is compiled here: about ten minutes)"
  CMAKE_ARGS="-DGGML_NATIVE=ON" .venv/bin/pip install --progress-bar off -q -r "$list"
  cp "$list" "$stamp"
}

# Static arm64 libraries, unpacked into build/arm64-libraries: nothing on this system changes.
make_arm64_libraries() {
  local dir=build/arm64-libraries
  [ -f "$dir/done" ] && return
  say "setup: arm64 libraries"
  rm -rf "$dir"
  mkdir -p "$dir/apt/state/lists/partial" "$dir/apt/cache/archives/partial" "$dir/debs"
  local full=$ROOT/$dir
  local options=(-qq -o "Dir::State=$full/apt/state" -o Dir::State::status=/dev/null
    -o "Dir::Cache=$full/apt/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=2)
  apt-get "${options[@]}" update
  (cd "$dir/debs" && apt-get "${options[@]}" download \
    libgtest-dev libgmock-dev googletest)
  local deb
  for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir"; done
  rm -rf "$dir/apt" "$dir/debs"
  touch "$dir/done"
}

verb_setup() {
  local purposes=(build python format clang) option
  for option in "$@"; do
    case $option in
      --oracle | --arm64) purposes+=("${option#--}") ;;
      *) die "setup: $option, expected --oracle or --arm64" ;;
    esac
  done
  need "${purposes[@]}"
  say "setup: ready"
}
