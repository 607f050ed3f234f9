// The headers that all of these tests include, compiled once.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/tcp_listener.hpp>
#include <penstock/task/run.hpp>
