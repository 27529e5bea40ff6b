"""How a chunk's items come to a thread: declared, filled, or named where they are."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.backend.emit.lines import Line


@dataclass(frozen=True, slots=True)
class Bring:
    """The items of a chunk of one array.

    They are filled by a call whose last argument is how many vectors there are, or stand under
    another name (`alias`), or have been there since an earlier sweep. `repacks`: what was unpacked
    of them is forgotten, so that they take half the registers.
    """

    items: str  # the variable
    type: str  # of an element
    call: str = ""  # what fills them, but for its last argument and the bracket
    alias: str = ""
    repacks: bool = False
    per: str = ""  # a factor on how many there are
    place: str = ""  # where what is shifted lies: asked for first, and shifted once it is there

    @classmethod
    def from_memory(cls, loader: str, name: str, type: str, place: str) -> Bring:
        """Items of the array of that name from a place of its row, by the function that loads."""
        items = f"{name}_items"
        shifts = place if loader == "load_shifted" else ""
        return cls(items, type, f"{loader}({items}, {place}", place=shifts)

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
        return [*self._of_items(f"{self.call}, {live});", self.call), *self._repacked()]

    def asked(self, live: str = "live", count: str = "kItems") -> list[Line]:
        """As `lines`, but for what waits for memory: that is `settled`, after all else that a
        thread wants was asked for."""
        if not self.place:
            return [*self.declared(count), *self._of_items(f"{self.call}, {live});", self.call)]
        text = f"const auto {self._behind} = ask_items({self.items}, {self.place}, {live});"
        return [*self.declared(count), Line(text, frozenset([self.items]), self._behind)]

    def settled(self) -> list[Line]:
        """Statements after which the items are there."""
        shift = f"shift_items({self.items}, {self._behind});"
        return [*self._of_items(shift, self.place), *self._repacked()]

    def again(self) -> list[Line]:
        """The same items once more: they need not outlast what lies between."""
        return [*self._of_items(f"{self.items} = {{}};", self.call), *self.filled()]

    @property
    def _behind(self) -> str:
        return self.items.replace("_items", "_behind")

    def _repacked(self) -> list[Line]:
        return self._of_items(f"{self.items}.repack();", self.repacks)

    def _of_items(self, text: str, wanted: str | bool) -> list[Line]:
        """A statement about the items, where it is wanted."""
        return [Line(text, frozenset([self.items]))] if wanted else []
