"""How a chunk's items come to a thread: declared, filled, or named where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusegen.backend.emit.lines import Line

SHIFTED = ("load_shifted", "load_within")  # loaders of what comes by shifts


def asking(loader: str, name: str, items: str, place: str) -> str:
    """What asks for a chunk of the array of that name, but for its last argument and the bracket;
    where its items come by shifts, it says what these will need."""
    asks = f"{name}_behind = ask_items" if loader in SHIFTED else loader
    return f"{asks}({items}, {place}"


def shifting(name: str, items: str) -> str:
    """The statement that waits for what was asked for so, and shifts it."""
    return f"shift_items({items}, {name}_behind);"


@dataclass(frozen=True, slots=True)
class Bring:
    """The items of a chunk of one array.

    They are filled by a call whose last argument is how many vectors there are, or stand under
    another name (`alias`), or have been there since an earlier sweep.
    """

    items: str  # the variable
    type: str  # of an element
    call: str = ""  # what fills them, but for its last argument and the bracket
    alias: str = ""
    per: str = ""  # a factor on how many there are
    asks: str = ""  # what asks for them, where they are shifted once they are there
    shifts: str = ""  # and what shifts them

    @classmethod
    def from_memory(cls, loader: str, name: str, type: str, place: str) -> Bring:
        """Items of the array of that name from a place of its row, by the function that loads."""
        items = f"{name}_items"
        found = cls(items, type, f"{loader}({items}, {place}")
        if loader not in SHIFTED:
            return found
        asks = f"const auto {asking(loader, name, items, place)}"
        return replace(found, asks=asks, shifts=shifting(name, items))

    def lines(self, live: str = "live", count: str = "kItems") -> list[Line]:
        """Statements that declare `count` items and fill `live` vectors of them."""
        return [*self.declared(count), *self.filled(live)]

    def declared(self, count: str = "kItems", value: str = "") -> list[Line]:
        """The declaration; with ` = {}` as value, what a chunk lacks does not stay in registers
        from the chunk before."""
        if self.alias:
            text = f"auto& {self.items} = {self.alias};"
            return [Line(text, frozenset([self.alias]), self.items)]
        if self.call:
            kind = f"Items<{self.type}, {count}{self.per}>"
            return [Line(f"{kind} {self.items}{value};", declares=self.items)]
        return []

    def filled(self, live: str = "live") -> list[Line]:
        """Statements that fill items declared before."""
        return self._of_items(f"{self.call}, {live});", self.call)

    def asked(self, live: str = "live", count: str = "kItems") -> list[Line]:
        """As `lines`, but for what waits for memory: that is `settled`, after all else that a
        thread wants was asked for."""
        asks = self.asks or self.call
        return [*self.declared(count), *self._of_items(f"{asks}, {live});", asks)]

    def settled(self) -> list[Line]:
        """Statements after which the items are there."""
        return self._of_items(self.shifts, self.shifts)

    def again(self) -> list[Line]:
        """The same items once more: they need not outlast what lies between."""
        return [*self._of_items(f"{self.items} = {{}};", self.call), *self.filled()]

    def _of_items(self, text: str, wanted: str) -> list[Line]:
        """A statement about the items, where it is wanted."""
        return [Line(text, frozenset([self.items]))] if wanted else []
