#!/bin/sh
lscpu
