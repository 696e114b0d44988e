# shellcheck shell=bash
# Sourced by build*.sh at the root: rebuild libggml-python from its sdist with other options, then install ggtts.
#
# PYTHON names the interpreter to install into. Without it, .venv of this checkout is used (made when missing)
# and ggtts is installed editable there, as the Makefile does.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

fail() {
    echo "$(basename "$0"): $1" >&2
    exit 1
}

# take_options USAGE ARGUMENT...: the options that all scripts share; USAGE is printed for -h.
take_options() {
    local usage=$1
    shift
    case "${1-}" in
        "") ;;
        --wheels)
            [[ -d ${2-} ]] || fail "--wheels needs a folder that --download made"
            PIP_FIND_LINKS=$(realpath "$2")
            export PIP_NO_INDEX=1 PIP_FIND_LINKS
            ;;
        --download)
            [[ -n ${2-} ]] || fail "--download needs a folder to put the packages into"
            download "${@:2}"
            exit 0
            ;;
        -h | --help)
            echo "$usage"
            echo
            echo "--download DIR  only fetch what --wheels needs, for another machine (docs/cuda.md); more arguments go to pip"
            echo "--wheels DIR    install from that folder, without a network"
            echo
            echo "PYTHON=...      interpreter to install into (default: .venv of this checkout)"
            echo "CMAKE_ARGS=...  more CMake options for GGML"
            exit 0
            ;;
        *)
            echo "$(basename "$0"): unknown argument '$1' (see -h)" >&2
            exit 2
            ;;
    esac
}

have() {
    command -v "$1" > /dev/null 2>&1
}

compiler() {
    local candidate
    for candidate in "${CXX-}" c++ g++ clang++; do
        if [[ -n $candidate ]] && have "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

require_compiler() {
    compiler > /dev/null || fail "no C++ compiler found: install one (Debian: apt install g++) or name it with CXX=..."
}

# nvcc from PATH, from CUDACXX, or from the usual place of the toolkit.
have_cuda() {
    have nvcc || { [[ -n ${CUDACXX-} ]] && have "$CUDACXX"; } || {
        [[ -x /usr/local/cuda/bin/nvcc ]] && export CUDACXX=/usr/local/cuda/bin/nvcc
    }
}

# Headers with VK_EXT_layer_settings, which GGML uses: without it the compiler fails after minutes.
have_vulkan_headers() {
    printf '%s\n' '#include <vulkan/vulkan.hpp>' '#ifndef VK_EXT_layer_settings' '#error too old' '#endif' |
        "$(compiler)" ${VULKAN_SDK:+-I"$VULKAN_SDK/include"} -x c++ -E - > /dev/null 2>&1
}

have_spirv_headers() {
    echo '#include <spirv/unified1/spirv.hpp>' | "$(compiler)" ${VULKAN_SDK:+-I"$VULKAN_SDK/include"} -x c++ -E - > /dev/null 2>&1
}

have_vulkan() {
    have glslc && have_vulkan_headers && have_spirv_headers
}

# The exact version that ggtts is built against.
libggml_version() {
    local version
    version=$(sed -n 's/^ *"libggml-python==\([^"]*\)".*/\1/p' pyproject.toml | head -n 1)
    [[ -n $version ]] || fail "pyproject.toml names no exact version of libggml-python"
    echo "$version"
}

# The interpreter to install into; makes .venv when PYTHON is not given and .venv is missing.
interpreter() {
    if [[ -n ${PYTHON-} ]]; then
        have "$PYTHON" || fail "PYTHON=$PYTHON does not exist"
        echo "$PYTHON"
        return
    fi
    [[ -x .venv/bin/python ]] || python3 -m venv .venv || fail "python3 -m venv failed: install Python 3.10 or newer with venv"
    echo .venv/bin/python
}

# Everything that pyproject.toml names to build and to run ggtts, one requirement a line.
requirements() {
    "$1" -c 'try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
print(*project["build-system"]["requires"], *project["project"]["dependencies"], sep="\n")'
}

# download DIR ARGUMENT...: all that a machine without a network needs, for this Python or the one the arguments name.
download() {
    local folder=$1 python version wanted
    shift
    version=$(libggml_version) || exit 1
    python=$(interpreter) || exit 1
    # What libggml is built with, and what both are built with where it is not installed.
    wanted=("scikit-build-core>=1.0,<1.1" "setuptools-scm>=10.2,<11" setuptools cmake ninja)
    mapfile -t -O "${#wanted[@]}" wanted < <(requirements "$python")
    "$python" -m pip download --disable-pip-version-check --dest "$folder" --only-binary :all: "$@" "${wanted[@]}" ||
        fail "not all packages could be fetched; pip's message is above"
    "$python" -m pip download --disable-pip-version-check --dest "$folder" --no-deps --no-binary libggml-python \
        "libggml-python==$version" || fail "the source of libggml-python $version could not be fetched"
}

# rebuild OPTION...: libggml with these CMake options, then ggtts, then the devices it finds.
rebuild() {
    local python version target kernels=()
    require_compiler
    version=$(libggml_version) || exit 1
    python=$(interpreter) || exit 1
    target=(.)
    [[ "$*" != *-DGGML_CUDA=ON* ]] || kernels=(--config-settings=cmake.define.GGTTS_CUDA=ON)
    [[ "$*" =~ -DCMAKE_CUDA_ARCHITECTURES=([^ ]+) ]] &&
        kernels+=("--config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES=${BASH_REMATCH[1]}")
    [[ -n ${PYTHON-} ]] || target=(-e .)

    echo "libggml-python $version with $*"
    # No cache: pip would hand out a wheel that was built earlier with other options.
    CMAKE_ARGS="$* ${CMAKE_ARGS-}" "$python" -m pip install --disable-pip-version-check --no-cache-dir \
        --force-reinstall --no-deps --no-binary libggml-python "libggml-python==$version" ||
        fail "libggml could not be built; the compiler's message is above"
    "$python" -m pip install --disable-pip-version-check --quiet "${kernels[@]}" "${target[@]}" ||
        fail "ggtts could not be installed"
    "$python" -c 'from ggtts.core.engine import devices
for device in devices():
    print(f"{device.name:10} {device.description}")'
}
