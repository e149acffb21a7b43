"""Whole model turns that disappeared, counted only where proven."""
