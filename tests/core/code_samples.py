"""A small program a language, with the symbols it should be cut at: ``(kind, qualified name)`` in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    language: str
    source: str
    symbols: tuple[tuple[str, str], ...]
    path: str = "sample"


def _symbols(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.strip().splitlines())


PYTHON = Sample(
    "python",
    '''"""Reads orders from the shop's files and keeps what it has read."""
from dataclasses import dataclass


class Reader(Base, Generic[T]):
    """Reads one file."""

    limit: int = 10

    # How large the file is.
    @property
    def size(self) -> int:
        return self._size

    async def read(
        self,
        path: str,
    ) -> bytes:
        """The file's bytes."""
        def inner(): return 1
        return inner()

    class Options:
        """What a reader may be told."""

        def merge(self, other): ...


def overloaded(x: int) -> int: ...


DEFAULTS = {
    "a": 1,
    "b": 2,
    "c": 3,
    "d": 4,
}

if TYPE_CHECKING:
    def only_typed(): ...
''',
    _symbols("""
        class Reader
        method Reader.size
        method Reader.read
        class Reader.Options
        method Reader.Options.merge
        function overloaded
        constant DEFAULTS
        function only_typed
    """),
)

GO = Sample(
    "go",
    """// Package shop sells things.
package shop

import "fmt"

// Cart holds what a customer wants to buy.
type Cart[T any] struct {
	items []T
}

type (
	// Pricer knows prices.
	Pricer interface {
		Price() int
	}
	Money = int
)

// Add puts an item into the cart.
func (c *Cart[T]) Add(item T) error {
	return nil
}

func (Cart[T]) Empty() bool { return true }

func NewCart[T any](items ...T) *Cart[T] {
	return &Cart[T]{items: items}
}

var rates = map[string]int{
	"de": 19,
	"fr": 20,
	"pt": 23,
}
""",
    _symbols("""
        struct Cart
        interface Pricer
        type Money
        method Cart.Add
        method Cart.Empty
        function NewCart
        constant rates
    """),
)

TYPESCRIPT = Sample(
    "typescript",
    """import { Injectable } from "framework";

/** Where things are kept. */
@Injectable()
export class Store<T> extends Base implements Kept<T> {
  private items: T[] = [];

  constructor(private readonly size: number) { super(); }

  /** Finds one. */
  find<K extends keyof T>(key: K): T | undefined {
    return this.items.find((item) => item[key]);
  }

  onChange = (event: Event): void => {
    this.items = [];
  };
}

export interface Kept<T> { find(key: keyof T): T | undefined }
export type Pair<A, B> = [A, B];
export enum Colour { Red, Green }
export const isEmpty = (list: unknown[]): boolean => list.length === 0;
export default function main(): void {}

namespace Util.Text {
  export function trim(text: string): string { return text.trim(); }
}

declare module "untyped" {
  export function load(path: string): unknown;
}

export const routes = {
  home: "/",
  cart: "/cart",
  search: "/search",
};
""",
    _symbols("""
        class Store
        method Store.constructor
        method Store.find
        method Store.onChange
        interface Kept
        type Pair
        enum Colour
        function isEmpty
        function main
        function Util.Text.trim
        function load
        constant routes
    """),
)

TSX = Sample(
    "tsx",
    """import React from "react";

export const Button = ({ label }: Props): JSX.Element => {
  return <button className="b">{label}</button>;
};

export default class Page extends React.Component<Props> {
  render() {
    return <Button label="Go" />;
  }
}
""",
    _symbols("""
        function Button
        class Page
        method Page.render
    """),
)

JAVASCRIPT = Sample(
    "javascript",
    """'use strict';
const fs = require('fs');

/**
 * Sends an answer.
 */

exports.send = function send(body) {
  return body;
};

Response.prototype.status = function (code) { this.code = code; };

const add = (a, b) => a + b;
const list = async function* () { yield 1; };

const api = {
  version: 2,
  get(path) { return fetch(path); },
  post: async (path, body) => {
    return fetch(path, { method: 'POST', body });
  },
  users: {
    list() { return api.get('/users'); },
  },
};

class Queue extends Array {
  #size = 0;
  get size() { return this.#size; }
  static of(...items) { return new Queue(items); }
}

module.exports = { add, close() { fs.close(); } };

(function () {
  function hidden() { return 1; }
})();
""",
    _symbols("""
        function send
        method Response.status
        function add
        function list
        object api
        method api.get
        method api.post
        method api.users.list
        class Queue
        method Queue.size
        method Queue.of
        method close
    """),
)

JAVA = Sample(
    "java",
    """package com.shop.cart;

import java.util.List;

/** A cart. */
@Entity
public class Cart<T extends Item> extends Base implements Priced {
  private final List<T> items;

  public Cart(List<T> items) { this.items = items; }

  /** The sum of it. */
  @Override
  public <R> int price(R rates) throws PriceException {
    return 0;
  }

  protected abstract void check();

  enum State {
    OPEN, PAID;
    boolean done() { return this == PAID; }
  }

  record Line(Item item, int count) {
    Line { assert count > 0; }
  }
}

interface Priced {
  int price();
  default boolean free() { return price() == 0; }
}

@interface Audited { String by(); }
""",
    _symbols("""
        class Cart
        constructor Cart.Cart
        method Cart.price
        enum Cart.State
        method Cart.State.done
        record Cart.Line
        constructor Cart.Line.Line
        interface Priced
        method Priced.free
        interface Audited
    """),
)

RUST = Sample(
    "rust",
    """//! Safe paths.
use std::path::Path;

/// A root that nothing leaves.
#[derive(Debug, Clone)]
pub struct Root<'a> {
    path: &'a Path,
}

impl<'a> Root<'a> {
    /// Joins a path to it.
    pub fn join(&self, part: &str) -> Option<PathBuf> {
        None
    }
}

impl<'a> std::fmt::Display for Root<'a> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result { Ok(()) }
}

pub enum Kind { File, Dir }

pub trait Guard {
    fn check(&self) -> bool;
    fn refuse(&self) -> bool { !self.check() }
}

macro_rules! guard {
    ($e:expr) => { if !$e { return None; } };
}

pub type Paths = Vec<PathBuf>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins() { assert!(true); }
}
""",
    _symbols("""
        struct Root
        method Root.join
        method Root.fmt
        enum Kind
        trait Guard
        method Guard.refuse
        macro guard
        type Paths
        function tests.joins
    """),
)

C = Sample(
    "c",
    """#include <stdio.h>
#define MAX 10
#define SWAP(a, b) \\
    do { int t = a; a = b; b = t; } while (0)

/* One entry. */
struct entry {
    int key;
};

typedef struct {
    struct entry *entries;
} table_t;

enum state { OPEN, CLOSED };
typedef int (*compare_fn)(const void *, const void *);

static const struct entry defaults[] = {
    { 1 },
    { 2 },
    { 3 },
};

int lookup(struct entry *e, int key);

/* Finds an entry. */
static struct entry *find(table_t *t, int key)
{
    return NULL;
}

#ifdef DEBUG
void dump(void) { puts("dump"); }
#endif
""",
    _symbols("""
        macro SWAP
        struct entry
        struct table_t
        enum state
        type compare_fn
        constant defaults
        function find
        function dump
    """),
    path="table.c",
)

CPP = Sample(
    "cpp",
    """#include "store.h"

namespace shop::store {

/// Keeps things.
template <typename T>
class Store : public Base {
 public:
  explicit Store(int size) : size_(size) {}
  ~Store() override = default;
  int size() const { return size_; }
  bool operator==(const Store& other) const { return size_ == other.size_; }

  struct Options {
    int limit;
  };

 private:
  int size_;
};

template <typename T>
T* Store<T>::find(const std::string& key) const {
  return nullptr;
}

class SHOP_EXPORT Cart : public Base {
  void clear() { items_.clear(); }
};

enum class Colour { Red };
using Stores = std::vector<Store<int>>;

namespace {
int helper() { return 1; }
}  // namespace

}  // namespace shop::store

TEST(StoreTest, FindsNothing) {
  EXPECT_EQ(nullptr, find());
}
""",
    _symbols("""
        class shop.store.Store
        method shop.store.Store.Store
        method shop.store.Store.size
        method shop.store.Store.operator==
        struct shop.store.Store.Options
        method shop.store.Store.find
        class shop.store.Cart
        method shop.store.Cart.clear
        enum shop.store.Colour
        type shop.store.Stores
        function shop.store.helper
        function StoreTest.FindsNothing
    """),
    path="store.cc",
)

RUBY = Sample(
    "ruby",
    """# frozen_string_literal: true

module Shop
  # Things that cost.
  module Priced
    def price = 0
  end

  class Cart < Base
    include Priced
    LIMIT = 10

    # Adds one.
    def add(item)
      @items << item
    end

    def self.open(path); new; end

    class << self
      def default; new; end
    end

    def [](index)
      @items[index]
    end

    private def check!
      raise unless valid?
    end
  end
end

Point = Struct.new(:x, :y) do
  def length
    Math.hypot(x, y)
  end
end
""",
    _symbols("""
        mixin Shop.Priced
        method Shop.Priced.price
        class Shop.Cart
        method Shop.Cart.add
        method Shop.Cart.open
        method Shop.Cart.default
        method Shop.Cart.[]
        method Shop.Cart.check!
        class Point
        method Point.length
    """),
)

PHP = Sample(
    "php",
    """<?php
namespace Shop\\Cart;

use Shop\\Item;

/** A cart. */
#[Entity]
final class Cart extends Base implements Priced
{
    use Counted;
    private array $items = [];

    /** Adds one. */
    public function add(Item $item): static
    {
        $this->items[] = $item;
        return $this;
    }

    abstract protected function check(): bool;
}

interface Priced { public function price(): int; }

trait Counted
{
    public function count(): int { return count($this->items); }
}

enum State: string
{
    case Open = 'open';
    public function label(): string { return ucfirst($this->value); }
}

function helper(string $text): string { return trim($text); }
""",
    _symbols("""
        class Cart
        method Cart.add
        interface Priced
        trait Counted
        method Counted.count
        enum State
        method State.label
        function helper
    """),
)

CSHARP = Sample(
    "csharp",
    """using System;

namespace Shop.Cart;

/// <summary>A cart.</summary>
[Serializable]
public class Cart<T> : Base, IPriced where T : Item
{
    private readonly List<T> _items;
    public int Count { get; set; }

    public Cart(int size) : base(size) { }

    public string Name
    {
        get { return _name; }
        set { _name = value; }
    }

    /// <summary>Adds one.</summary>
    public async Task<bool> AddAsync<U>(T item, U state) { return true; }
    public int Sum() => _items.Sum();
    public static Cart<T> operator +(Cart<T> a, Cart<T> b) { return a; }
    ~Cart() { Close(); }

    private enum State { Open, Paid }
}

public interface IPriced { int Price(); }
public record Line(Item Item, int Count);
public struct Money { public int Cents; }
public delegate void Changed(object sender);
""",
    _symbols("""
        class Cart
        constructor Cart.Cart
        property Cart.Name
        method Cart.AddAsync
        method Cart.Sum
        method Cart.operator+
        method Cart.~Cart
        enum Cart.State
        interface IPriced
        record Line
        struct Money
        delegate Changed
    """),
)

BASH = Sample(
    "bash",
    """#!/usr/bin/env bash
set -euo pipefail
readonly ROOT="$(cd "$(dirname "$0")" && pwd)"

# Says what went wrong.
die() {
  echo "$1" >&2
  exit 1
}

function build {
  make -C "$ROOT" all
}

if [ "${1:-}" = deploy ]; then
  deploy() { build && rsync -a "$ROOT/out" host: ; }
  deploy
fi
""",
    _symbols("""
        function die
        function build
        function deploy
    """),
)

SQL = Sample(
    "sql",
    """-- Who buys.
CREATE TABLE IF NOT EXISTS shop."Users" (
    id bigint PRIMARY KEY,
    email text NOT NULL
);

CREATE UNIQUE INDEX users_email ON shop.users (email);

CREATE VIEW active AS SELECT id FROM shop.users WHERE active;

INSERT INTO shop.users VALUES (1, 'somebody; or CREATE TABLE nothing (');

/* Keeps the time of the last change. */
CREATE OR REPLACE FUNCTION shop.touch() RETURNS trigger LANGUAGE plpgsql AS $fn$
BEGIN
    IF NEW.id IS NULL THEN RAISE EXCEPTION 'no id for %', NEW; END IF;
    NEW.updated := now();
    RETURN NEW;
END;
$fn$;
""",
    _symbols("""
        table shop.Users
        index users_email
        view active
        function shop.touch
    """),
)

SAMPLES = (PYTHON, GO, TYPESCRIPT, TSX, JAVASCRIPT, JAVA, RUST, C, CPP, RUBY, PHP, CSHARP, BASH, SQL)
