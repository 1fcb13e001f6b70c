#!/bin/sh
# benchmarks/peers/install.sh [sb3] [sbx] [rllib] [jax] [mlagents] [d3rlpy] [benchmarl] [rejax] [torchrl] [rsl_rl]: makes
# an environment for each peer (all, if none is named), at the versions that are compared. PY chooses the interpreter;
# TORCH_INDEX is an index of CPU builds of torch, where needed. The compiled peer runs in the environment of sb3.
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- sb3 sbx rllib jax mlagents d3rlpy benchmarl rejax torchrl rsl_rl
for peer; do
    list=$peer-requirements.txt
    venv=.venv-$peer
    if cmp -s "$list" "$venv/installed.txt"; then continue; fi
    echo "installing $peer ..."
    [ -x "$venv/bin/python" ] || "${PY:-python3}" -m venv "$venv"
    if grep -q '^torch==' "$list"; then  # first and alone: with the exact pin, a CPU wheel outranks the CUDA one
        "$venv/bin/python" -m pip install -q --disable-pip-version-check -c "$list" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
    fi
    case $peer in
        mlagents) beyond="--no-deps --ignore-requires-python" ;;  # it asks for Python 3.10
        benchmarl) beyond="--no-deps" ;;  # torchvision, which is not used, asks for a later torch
        *) beyond="" ;;
    esac
    "$venv/bin/python" -m pip install -q --disable-pip-version-check $beyond -r "$list"
    cp "$list" "$venv/installed.txt"
done
