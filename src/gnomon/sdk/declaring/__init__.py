"""Declaring handlers: functions, their options, parameters and dependencies."""
