"""The command ``robirank``: parse, call, print. What heavy commands need is imported in them."""

from robirank.cli.app import main as main
