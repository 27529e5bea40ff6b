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
        uses = frozenset([self.items])
        filled = [Line(f"{self.call}, {live});", uses)] if self.call else []
        return [*filled, *([Line(f"{self.items}.repack();", uses)] if self.repacks else [])]

    def again(self) -> list[Line]:
        """The same items once more: they need not outlast what lies between."""
        fresh = [Line(f"{self.items} = {{}};", frozenset([self.items]))] if self.call else []
        return [*fresh, *self.filled()]
