#!/bin/sh
# The program's command within the Flatpak. There XDG_CACHE_HOME is a folder of the program's own,
# while the models that others have downloaded lie where they always do.
export HF_HOME="${HF_HOME:-$HOME/.cache/huggingface}"
export LLAMA_CACHE="${LLAMA_CACHE:-$HOME/.cache/llama.cpp}"
exec python3 -P -m explorer "$@"
