"""The header of one safetensors file: every tensor's type, shape and place, as the file claims.

safetensors_and_blobs.md section 1; safetensors/src/tensor.rs. The rules that this module keeps are
those without which there is nothing to list: the header must be there, be JSON, and each entry must
say what it is. Whether the places fit each other and the file is for `places.py`.

Headers as the usual writers write them go through `quick.py`. All others are decoded
here, entry by entry rather than at once by `json.loads`: that needs a tenth of the memory, notices
repeated names, and knows where in the file an entry is wrong.
"""

from __future__ import annotations

from typing import Final

from explorer.errors import FormatError
from explorer.formats.bounded_json import (
    INTEGERS_ONLY,
    JsonLimits,
    JsonText,
    RepeatedKeys,
    check_bounds,
    decode_value,
    read_text,
    shorten,
)
from explorer.formats.limits import SAFETENSORS_MAX_HEADER_BYTES, SAFETENSORS_MAX_TENSORS
from explorer.formats.safetensors.entry import (
    METADATA,
    U64,
    Header,
    Spec,
    make_spec,
    read_dtype,
    read_fields,
    read_integers,
)
from explorer.formats.safetensors.quick import read_usual
from explorer.sources import ByteSource

LENGTH_BYTES: Final = 8

# What a file begins with that is called .safetensors and is none.
_LOOKS_LIKE: Final = (
    (b"version ", "a Git LFS pointer, not the model; fetch it with `git lfs pull`"),
    (b"GGUF", "a GGUF file; give it the ending .gguf"),
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?); convert it first"),
    (b"\x80", "a Python pickle (a PyTorch checkpoint?); convert it first"),
    (b"<", "a web page or XML; the download failed or needs a login"),
    (b"{", "JSON text"),
)


def read_header(source: ByteSource) -> Header:
    """Read the header of a safetensors file, rules 1 to 6, 8 and 9 of the reference.

    Raises:
        FormatError: One of these rules is broken.
        SourceError: The file cannot be read.
    """
    if source.size < LENGTH_BYTES:
        what = f"has {source.size} bytes, too few for a safetensors file; download it again"
        raise FormatError(what, source.path, 0)
    start = source.read(0, LENGTH_BYTES)
    length = int.from_bytes(start, "little")
    if length > SAFETENSORS_MAX_HEADER_BYTES:
        guess = next((name for magic, name in _LOOKS_LIKE if start.startswith(magic)), None)
        what = (
            f"is not a safetensors file; it looks like {guess}"
            if guess
            else f"claims a header of {length} bytes, where at most "
            f"{SAFETENSORS_MAX_HEADER_BYTES} are allowed; it is damaged or no safetensors file"
        )
        raise FormatError(what, source.path, 0)
    data_offset = LENGTH_BYTES + length
    if data_offset > source.size:
        what = (
            f"claims a header of {length} bytes, where {source.size - LENGTH_BYTES} are left; "
            "it is cut short, download it again"
        )
        raise FormatError(what, source.path, 0)
    text = read_text(source, LENGTH_BYTES, length)
    header = Header(data_offset)
    if not read_usual(text, header):
        check_bounds(text, _limits(text))
        header = _Walk(text, Header(data_offset)).run()
    return header


def _limits(text: JsonText) -> JsonLimits:
    """Return what a header with this many tensors may hold.

    A tensor has 3 containers, 5 strings, and 4 commas more than its shape has. The rest is for
    `__metadata__`, where some trainers put whole JSON texts, and for fields that are ignored.
    """
    tensors = min(text.text.count('"dtype"'), SAFETENSORS_MAX_TENSORS)
    return JsonLimits(
        containers=3 * tensors + 100_000,
        values=8 * tensors + 400_000,
        strings=5 * tensors + 100_000,
    )


class _Walk:
    """One pass over the header's text."""

    def __init__(self, text: JsonText, header: Header) -> None:
        self._text = text
        self._header = header
        self._specs: dict[tuple[str, tuple[int, ...]], Spec] = {}
        self._faults: list[tuple[int, FormatError]] = []
        self._has_metadata = False
        # The fast way takes true for 1 and -0 for 0: where the text may hold one, it is not taken.
        self._doubtful = any(word in text.text for word in ("true", "false", "-0"))

    def run(self) -> Header:
        """Walk over the entries and return the header."""
        text = self._text
        position = text.skip_white(0)
        if text.text[position : position + 1] != "{":
            raise text.error("has a header that does not begin with '{'; it is damaged", position)
        position = text.skip_white(position + 1)
        if text.text[position : position + 1] == "}":
            position += 1
        else:
            position = self._entries(position)
        position = text.skip_white(position)
        if position != len(text.text):
            raise text.error("has text behind the header's last '}'; it is damaged", position)
        self._finish()
        return self._header

    def _entries(self, position: int) -> int:
        """Read all entries; return the position behind the closing brace.

        The loop runs 10,000 times while a user waits: what is usual is checked in place, and all
        else goes to `_unusual`. An object of three keys with four strings (eight quotes) repeats no
        key; a list minus a list, or a string minus a string, is a TypeError.
        """
        text, header = self._text.text, self._header
        decode, count, starts_with = INTEGERS_ONLY.raw_decode, text.count, text.startswith
        specs = self._specs
        add_name, add_spec = header.names.append, header.specs.append
        add_begin, add_end = header.begins.append, header.ends.append
        doubtful = self._doubtful
        while True:
            name, position = self._key(position)
            position = position + 1 if starts_with(":{", position) else self._colon(position)
            if name == METADATA:
                position = self._metadata(position)
            else:
                start = position
                try:
                    entry, position = decode(text, start)
                    shape = entry["shape"]
                    spec = specs[entry["dtype"], tuple(shape)]
                    begin, end = entry["data_offsets"]
                    usual = (
                        end - begin == spec.nbytes
                        and len(entry) == 3
                        and count('"', start, position) == 8
                        and type(shape) is list
                    )
                except (ValueError, KeyError, TypeError):
                    usual = False
                if doubtful or not usual:
                    spec, begin, end, position = self._unusual(name, start)
                add_name(name)
                add_spec(spec)
                add_begin(begin)
                add_end(end)
            if starts_with(',"', position):
                position += 1
                continue
            position = self._text.skip_white(position)
            if starts_with("}", position):
                return position + 1
            position = self._comma(position)

    def _key(self, position: int) -> tuple[str, int]:
        text = self._text
        if not text.text.startswith('"', position):
            raise text.error("has a header where a name is missing; it is damaged", position)
        try:
            name: str
            name, end = INTEGERS_ONLY.raw_decode(text.text, position)
        except ValueError:
            name, end = decode_value(text, position)  # raises, with the place
        return name, end

    def _colon(self, position: int) -> int:
        text = self._text
        position = text.skip_white(position)
        if not text.text.startswith(":", position):
            raise text.error("has a header where ':' is missing; it is damaged", position)
        return text.skip_white(position + 1)

    def _comma(self, position: int) -> int:
        text = self._text
        if not text.text.startswith(",", position):
            raise text.error("has a header where ',' or '}' is missing; it is damaged", position)
        return text.skip_white(position + 1)

    def _metadata(self, start: int) -> int:
        value, position = decode_value(self._text, start)
        if self._has_metadata:
            raise self._text.error(f"has {METADATA} twice; it is damaged", start)
        self._has_metadata = True
        if value is None:
            return position
        if not isinstance(value, dict) or not all(type(text) is str for text in value.values()):
            raise self._text.error(f"has a {METADATA} that is not texts by name", start)
        if isinstance(value, RepeatedKeys):
            self._header.repeated_metadata = value.repeated
        self._header.metadata = value
        return position

    def _unusual(self, name: str, start: int) -> tuple[Spec, int, int, int]:
        """Read an entry with every check.

        Returns:
            Type and shape, begin, end, and the position behind the entry.
        """
        value, position = decode_value(self._text, start)
        try:
            dtype, shape, offsets = read_fields(value)
            begin, end = read_integers(offsets, "data_offsets", 2)
            key = (read_dtype(dtype), tuple(read_integers(shape, "shape")))
        except ValueError as error:
            raise self._text.error(f"tensor {shorten(name)}: {error}", start) from None
        spec = self._specs.get(key)
        if spec is None:
            spec = make_spec(*key)
            if spec.fault is None:
                self._specs[key] = spec
        if spec.fault is not None:
            fault = self._text.error(f"tensor {shorten(name)}: {spec.fault}", start)
            self._faults.append((len(self._header.names), fault))
        return spec, begin, end, position

    def _finish(self) -> None:
        """Drop what a later entry of the same name replaces, then refuse what is left of faults."""
        header = self._header
        names = header.names
        if len(names) > SAFETENSORS_MAX_TENSORS:
            what = f"has {len(names)} tensors, more than {SAFETENSORS_MAX_TENSORS}"
            raise self._text.error(what, 0)
        if names and (min(header.begins) < 0 or max(header.ends) >= U64):
            raise self._text.error("has a tensor whose place is not from 0 to 2^64", 0)
        kept = dict(zip(names, range(len(names)), strict=True))  # the last of each name
        for row, error in self._faults:
            if kept[names[row]] == row:
                raise error
        if len(kept) < len(names):
            rows = set(kept.values())
            replaced = (name for row, name in enumerate(names) if row not in rows)
            header.repeated = list(dict.fromkeys(replaced))
            header.reorder(sorted(rows))
